"""One language that says where faults strike, for every target: `op=mma.sp role=e lanes=0..1`."""
