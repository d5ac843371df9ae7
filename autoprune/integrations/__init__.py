"""Pruning inside what others wrote: one module for each framework or client, which imports it when it is loaded."""
