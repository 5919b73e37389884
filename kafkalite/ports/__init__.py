"""The outside world, as kafkalite needs it: time, chance, disks, and answers that come later."""
