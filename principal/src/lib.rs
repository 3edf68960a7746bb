//! The hub's side: gRPC server, sessions, synchronisation with the hub's API.
