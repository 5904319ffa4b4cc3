mod bodies;
mod events;
mod turns;
