"""A chip: its numbers as one config, which is read from the TOML files of configs/ with their sources."""
