"""One module per wire format."""
