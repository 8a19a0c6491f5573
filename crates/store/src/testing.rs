//! Backends for tests.
