"""The front of an SM in typed Python, which Cython compiles as it stands (`simulator.machine.build`)."""

from simulator.machine.front.counters import busy_pipes as busy_pipes
from simulator.machine.front.counters import busy_shared as busy_shared
from simulator.machine.front.counters import count as count
from simulator.machine.front.counters import counters as counters
from simulator.machine.front.counters import issued as issued
from simulator.machine.front.counters import state as state
from simulator.machine.front.front import Front as Front
from simulator.machine.front.program import Program as Program
from simulator.machine.front.rules import Rules as Rules
from simulator.machine.front.services import block_shared as block_shared
from simulator.machine.front.services import fill_queue as fill_queue
from simulator.machine.front.services import make_room_in_queue as make_room_in_queue
from simulator.machine.front.services import send_outside as send_outside
from simulator.machine.front.services import set_ages as set_ages
