"""What is built on the library: the command line, the proxy, replay, session files, and how assistants are started."""
