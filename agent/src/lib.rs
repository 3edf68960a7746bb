//! The spoke program: dials the principal and keeps the spoke as the hub wants it.
