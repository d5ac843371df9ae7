"""What the pages of the replay and of the proxy share: elements, style and scripts."""
