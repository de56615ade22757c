"""What programs that come with tcsim are part of: networks whose layers they compute."""
