"""The programs built on the library: the command line, the proxy, replay, session files, and assistants."""
