//! The hub program: an OCM add-on manager with the principal inside.
