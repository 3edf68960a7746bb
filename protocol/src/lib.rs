//! Messages of the wire and the session rules of both ends; no I/O.
