"""The spec's utilities for servers: pages of lists, argument completion, log messages."""
