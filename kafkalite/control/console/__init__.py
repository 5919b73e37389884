"""The console: web pages that show what happens in a cluster, served by the control endpoint."""
