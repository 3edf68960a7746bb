//! What still has to be applied: the last value per object, one piece of work at a time.
