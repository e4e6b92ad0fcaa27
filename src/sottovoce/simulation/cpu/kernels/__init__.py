"""Compiled reports, one module for each mechanism: see `sottovoce.simulation.cpu.epoch.plug_in`."""
