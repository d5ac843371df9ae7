"""Adapters: one module for each framework or client. A framework is imported only with its module."""
