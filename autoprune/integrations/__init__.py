"""Adapters: autoprune inside agent frameworks and clients, one module each; each needs the package that it is for."""
