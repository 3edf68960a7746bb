//! Puts the parts together and starts them.
