//! Jobs on a real node, an embedded store and a local bus.

mod bounds;
mod crash;
mod ends;
mod parents;
mod preparations;
mod removals;
mod runs;
mod schedules;
mod times;
mod world;
