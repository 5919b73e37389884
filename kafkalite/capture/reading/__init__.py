"""Reading of captures: packets, connections, frames, exchanges."""
