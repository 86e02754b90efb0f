//! Hosts behind a shell, with plain shells in place of `ssh`.

#![cfg(test)]

mod support;

mod alike;
mod bytes;
mod commands;
mod ending;
mod files;
mod jobs;
mod kept;
mod memory;
