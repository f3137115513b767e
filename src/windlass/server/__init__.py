"""The server: the same jobs for programs in any language, over REST and streams."""
