//! The lab, a test bed of real control planes on one machine, and the stories told in it.
