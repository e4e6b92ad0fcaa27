"""Compiled kernels, one module per mechanism. See `sottovoce.simulation.cpu.epoch.plug_in`."""
