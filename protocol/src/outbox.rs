//! What still has to be said: the last word per object and facet, never a history.
