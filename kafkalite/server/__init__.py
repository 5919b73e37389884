"""The shell: sockets, signals, ticks and logs around one emulated cluster."""
