//! The tools as a client sees them: real files, real processes, real servers.
//!
//! Defects that other servers have or had, and the tests that ours has none of them:
//!
//! | defect | test |
//! |---|---|
//! | only the shell is killed, its children stay | `ending::a_cancelled_call_ends_its_whole_tree`, `ending::a_time_limit_…` |
//! | a call hangs, or loses output, while a child holds the pipe | `shell::a_process_that_keeps_the_pipe_…` |
//! | a job's id is a process number; a time limit only stops waiting | `jobs::an_id_is_no_process_number`, `ending::a_time_limit_…` |
//! | a failed edit looks like a success | `edit::mistakes_are_errors_and_leave_the_file_alone` |
//! | CRLF becomes LF | `edit::line_endings_need_not_be_known_and_are_kept_line_by_line` |
//! | the first of many matches is replaced | `edit::several_matches_are_listed_and_none_is_chosen` |
//! | mode, owner, links are lost | `write::mode_owner_and_attributes_are_kept`, `write::a_link_is_kept_…` |
//! | characters are split between chunks | `read_file::a_character_on_the_edge_of_every_chunk_stays_whole` |
//! | output without bounds | `list_dir::a_page_is_never_more_than_a_client_takes`, `search_bounds::an_answer_stays_…` |
//! | fuzzy replacing never ends | `edit::fuzzy_replace_all_ends_even_if_the_new_text_matches_again` |
//! | pages are fetched from anywhere, and anew for every part | `fetch_guard`, `fetch_parts::the_parts_together_…` |
//! | a tool changes what tools may do | `rules::no_tool_changes_the_rules` |
//! | a limit of results counts per file | `search_bounds::the_limit_is_for_all_files_together` |
//! | a bad pattern finds nothing instead of failing | `search::a_bad_pattern_is_an_error_in_ripgreps_words` |
//! | output that looks like a prompt ends the wait | `jobs::what_looks_like_a_prompt_ends_no_wait` |
//! | roots by string prefix (L9) | `confinement`, `write_confined`, `fence` |
//! | children inherit descriptors (L18) | `shell::a_command_finds_nothing_open_but_its_own_three`, and in lmcp-cli |
//! | cancelling leaves the process (L19) | `ending` |
//! | a FIFO or a huge file blocks everyone (L24) | `read_file_kinds::what_is_no_file_is_refused_without_waiting` |

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod confinement;
mod copying;
mod edit;
mod edit_property;
mod encodings;
mod ending;
mod fairness;
mod fence;
mod fence_calls;
mod fetch;
mod fetch_growing;
mod fetch_guard;
mod fetch_packed;
mod fetch_parts;
mod fetch_proxy;
mod fetch_tls;
mod full_disk;
mod here;
mod history;
mod ignoring;
mod jobs;
mod list_dir;
mod listing;
mod long;
mod memory;
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
mod old_kernel;
mod peers;
mod picture;
#[path = "../../../lmcp-outbound/tests/it/proxy_server.rs"]
mod proxy_server;
mod published;
mod read_file;
mod read_file_kinds;
mod read_file_lines;
mod records;
mod rights;
mod rules;
mod scratch;
mod search;
mod search_bounds;
mod searching;
mod shell;
mod site;
mod support;
mod systeminfo;
mod terminal;
mod waiting;
mod web_search;
mod write;
mod write_confined;
mod write_killed;
mod write_together;
mod writing;
