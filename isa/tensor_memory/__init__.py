"""Tensor Memory: addresses, datapath layouts, metadata, scale factors, and what moves data in and out."""
