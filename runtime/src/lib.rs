//! Process plumbing: arguments, logs, metrics, admin endpoints, supervised tasks, rotating credentials.
