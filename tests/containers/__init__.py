"""Tests of the image in real containers: Docker's commands, compose files, Testcontainers."""
