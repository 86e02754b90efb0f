//! Plays every file of `transcripts/` over every transport.
//!
//! `UPDATE=1` rewrites the `<` lines instead of checking them; `ONLY=name` plays the files whose name contains `name`.
//! The format is described in `transcript.rs`.

mod compare;
mod expand;
mod http;
mod inbox;
mod limits;
mod link;
mod modules;
mod play;
mod print;
mod runner;
mod shapes;
mod storm;
mod tidy;
mod transcript;

use transcript::Transport;

#[tokio::test]
async fn every_transcript_is_played_in_memory() {
    runner::play_all(Transport::Memory).await;
}

#[tokio::test]
async fn every_transcript_is_played_on_stdio() {
    runner::play_all(Transport::Stdio).await;
}

#[tokio::test]
async fn every_transcript_is_played_on_a_unix_socket() {
    runner::play_all(Transport::Unix).await;
}

#[tokio::test]
async fn every_transcript_is_played_over_http() {
    runner::play_all(Transport::Http).await;
}
