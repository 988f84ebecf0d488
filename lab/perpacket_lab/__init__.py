"""perpacket's lab: studies of published documents, the simulator, the emulated machine, models."""
