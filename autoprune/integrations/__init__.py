"""Adapters: one module for each framework or client. Only loading a module imports its framework."""
