"""Earlier states of a cluster, computed from its logs: of one that runs, or of files."""
