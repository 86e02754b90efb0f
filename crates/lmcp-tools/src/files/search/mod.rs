//! `search_files`: text in files by regular expression, and files by name, with the engine of ripgrep.
//!
//! | file | content |
//! |---|---|
//! | `args`, `result`, `render` | the arguments and the results |
//! | `query` | the compiled pattern |
//! | `tree`, `filter`, `listing` | the folders, as open directories, and which entries are left out, with `files/ignore` |
//! | `pool`, `worker` | many threads, one order: the results are the same whichever thread finds one first |
//! | `sink`, `clip` | the parts of a match that are kept |
//! | `page`, `cursor` | the results that fit into one answer, and where the next one goes on |

mod args;
mod clip;
mod cursor;
mod filter;
mod listing;
mod page;
mod pool;
mod query;
mod render;
mod result;
mod sink;
mod tree;
mod worker;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use lmcp_core::{Cx, Handler, Tool, ToolError, ToolResult, WithState};
use tokio::sync::Semaphore;

use crate::{
    Host,
    answer::Answer,
    files::meter::Meter,
    here::Here,
    memory::{Memory, blocking_within},
    room::Room,
    schemas,
};

pub use args::Args;
use args::Mode;
use cursor::Cursor;
use filter::Filter;
use page::{Page, Want};
use pool::Pool;
use query::{BASE_BYTES, FREE, Query};
pub use result::SearchResult;
use tree::{Start, Tree};
use worker::Search;

/// The most searches at once; further ones wait. Each takes a thread for every processor.
pub(crate) const AT_ONCE: usize = 4;

pub(crate) fn tool() -> Tool<Host> {
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    define(move |host, args, cx| search(host, args, cx, turns.clone()))
}

/// Defines the tool as models know it, with the handler that does the work.
pub fn define<S: Send + Sync + 'static>(
    handler: impl Handler<S, Args, ToolResult<Answer<SearchResult>>, WithState>,
) -> Tool<S> {
    schemas::tool("search_files", handler)
    .title("Search files")
    .about(
        "Find text in files by regular expression (ripgrep), or files by name (mode `names`). Returns matches with path \
         and line, and a cursor for the rest.",
    )
    .alias("pattern", ["query", "regex", "search", "search_term"])
    .alias("path", super::PATH_NAMES)
    .alias("path", super::FOLDER_NAMES)
    .alias("globs", ["glob", "include", "includes"])
    .alias("types", ["type"])
    .alias("mode", ["output_mode"])
    .alias("context", ["-C"])
    .alias("before", ["-B"])
    .alias("after", ["-A"])
    .alias("limit", ["max_results", "head_limit"])
    .ignore(["description", "explanation"])
    .unlisted(["before", "after", "types", "max_seconds"])
    .also_called(["grep", "glob", "rg", "ripgrep", "find", "search", "find_files", "search_file_content", "grep_search", "file_search", "codebase_search"])
    .read_only()
}

pub(crate) async fn search(
    host: Arc<Host>,
    args: Args,
    cx: Cx,
    turns: Arc<Semaphore>,
) -> ToolResult<Answer<SearchResult>> {
    let here = host.here(&cx, [args.path.as_str()]).await?;
    let turn = turns.acquire_owned().await?;
    let stop = StopOnDrop::default();
    let flag = stop.0.clone();
    let own = cx.clone();
    blocking_within(&cx, move |memory| {
        // The turn is given back with this step: the threads may go on for a moment after the caller has gone.
        let _turn = &turn;
        run(&host, &here, &args, &own, memory, &flag)
    })
    .await
}

/// Sets its flag when the request's future is dropped. The threads see the flag at their next step.
#[derive(Default)]
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs one search, from the arguments to the answer.
fn run(
    host: &Host,
    here: &Here,
    args: &Args,
    cx: &Cx,
    memory: &mut Memory,
    stop: &AtomicBool,
) -> ToolResult<Answer<SearchResult>> {
    let deadline = Instant::now() + Duration::from_secs(args.max_seconds.into());
    let room = Room::of(cx);
    let progress = cx.open_progress();
    let (globs, cache) = Filter::weight(args);
    memory.need(BASE_BYTES + globs)?;
    let mut query = Query::new(args, room, &mut |bytes| memory.need(bytes))?;
    query.thread_bytes += cache;
    let meter = Meter::of(cx, FREE)?;
    let found = find(host, here, args, (room, &query), &meter, stop, |searched| {
        let message = format!("{searched} files searched");
        progress.set(usize::try_from(searched).unwrap_or(usize::MAX), message);
        cx.is_cancelled() || Instant::now() >= deadline
    })?;
    let text = render::render(&found, args);
    Ok(Answer::new(found.fit_for(room), text))
}

/// Searches until all is found, `stop` is set, or `look` returns true. `look` gets the number of files searched so far.
fn find(
    host: &Host,
    here: &Here,
    args: &Args,
    (room, query): (Room, &Query),
    meter: &Arc<Meter>,
    stop: &AtomicBool,
    look: impl Fn(u64) -> bool,
) -> ToolResult<SearchResult> {
    let cursor = args
        .cursor
        .as_deref()
        .map(|text| Cursor::read(text, args.fingerprint()))
        .transpose()?;
    let place = host.roots.find(here, &args.path)?;
    let (tree, start) = Tree::open(&place, args, host.hard_links(), meter)?;
    if args.mode == Mode::Names && matches!(start, Start::File(_)) {
        return Err(ToolError::new(format!("`{}` is a file", args.path))
            .hint("mode `names` looks for files in a folder"));
    }
    let search = Search {
        tree: &tree,
        query,
        filter: &Filter::new(args)?,
        cursor: cursor.as_ref(),
        meter,
        prefix_bytes: args.path.len() + 1,
    };
    let page = Page::new(Want::new(args, room));
    let page = Pool::new(search, page, stop).run(start, look);
    let page = page.map_err(|err| {
        ToolError::new("no thread can be started to search")
            .source(err)
            .hint("try again later, when other programs of this user have ended")
    })?;
    let mut found = page.into_found(args, cursor.as_ref());
    found.skipped.ignore_rules = meter.has_left_out_rules();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet, env, fs, os::unix::process::CommandExt as _, process::Command,
    };

    use lmcp_core::Budget;
    use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
    use serde_json::{Value, json};

    use crate::Settings;

    use super::{page::Stop, *};

    /// Searches with plenty of memory.
    fn find(
        host: &Host,
        here: &Here,
        args: &Args,
        room: Room,
        stop: &AtomicBool,
        look: impl Fn(u64) -> bool,
    ) -> ToolResult<SearchResult> {
        let query = Query::new(args, room, &mut |_| Ok(()))?;
        let meter = Meter::new(Budget::new(1 << 30).account("a").take(0), FREE);
        super::find(host, here, args, (room, &query), &meter, stop, look)
    }

    /// Makes a folder with 40 folders of 10 files of 3 matches each, and a host that knows it.
    fn host() -> (tempfile::TempDir, Host) {
        let dir = tempfile::tempdir().unwrap();
        for folder in 0..40 {
            let folder = dir.path().join(format!("d{folder}"));
            fs::create_dir(&folder).unwrap();
            for file in 0..10 {
                fs::write(folder.join(format!("f{file}")), "x\ny\nx\nx\n").unwrap();
            }
        }
        let settings = Settings {
            roots: vec![dir.path().to_owned()],
            ..Settings::default()
        };
        (dir, Host::new(settings).unwrap())
    }

    fn args(arguments: Value) -> Args {
        serde_json::from_value(arguments).unwrap()
    }

    const WIDE: Room = Room {
        bytes: 1 << 30,
        lines: 1 << 30,
        ..Room::UNKNOWN
    };

    /// Searches without limits, until `look` says that the time is over.
    fn search(host: &Host, args: &Args, look: impl Fn(u64) -> bool) -> SearchResult {
        let go_on = AtomicBool::new(false);
        find(host, &Here::default(), args, WIDE, &go_on, look).unwrap()
    }

    #[test]
    fn a_search_that_is_stopped_anywhere_goes_on_from_there_and_finds_everything_once() {
        let (_dir, host) = host();
        let (mut cursor, mut seen) = (None, Vec::new());
        for round in 0.. {
            let args = args(json!({ "pattern": "x", "cursor": cursor }));
            // The threads are stopped at once, but sometimes get a little further.
            let found = search(&host, &args, |_| round % 8 != 7);
            let matches = found.matches.unwrap();
            seen.extend(matches.into_iter().map(|found| (found.path, found.line)));
            assert_eq!(found.found_so_far, seen.len() as u64);
            if found.complete {
                break;
            }
            assert_eq!(found.stopped_by, Some(Stop::Time));
            cursor = found.next_cursor;
        }
        assert_eq!(seen.len(), 40 * 10 * 3);
        assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), seen.len());
    }

    #[test]
    fn a_dropped_request_stops_its_threads() {
        let (_dir, host) = host();
        let stop = StopOnDrop::default();
        let flag = stop.0.clone();
        drop(stop);
        let args = args(json!({ "pattern": "x" }));
        let found = find(&host, &Here::default(), &args, WIDE, &flag, |_| false).unwrap();
        assert_eq!((found.found, found.searched_files), (0, 0));
    }

    #[test]
    fn no_more_is_searched_than_the_limit_needs() {
        let (_dir, host) = host();
        let args = args(json!({ "pattern": "x", "limit": 1 }));
        let found = search(&host, &args, |_| false);
        assert_eq!(found.found, 1);
        assert!(found.searched_files <= 10, "{}", found.searched_files);
    }

    /// The limit counts per user, and root has none: so this process is started again as a user that runs nothing else.
    #[test]
    fn a_search_goes_on_with_the_threads_that_it_gets_and_without_any_it_says_so() {
        const NAME: &str = "files::search::tests::a_search_goes_on_with_the_threads_that_it_gets_and_without_any_it_says_so";
        const NOBODY_ELSE: u32 = 64_987;
        if geteuid().as_raw() != NOBODY_ELSE {
            let mut again = Command::new(env::current_exe().unwrap());
            again.args([NAME, "--exact", "--nocapture", "--test-threads=1"]);
            again.uid(NOBODY_ELSE).gid(NOBODY_ELSE).current_dir("/");
            // Only root can do that, and only from a folder that other users may enter.
            if let Ok(ended) = again.output() {
                let said = String::from_utf8_lossy(&ended.stdout);
                assert!(
                    ended.status.success() && said.contains("1 passed"),
                    "{ended:?}"
                );
            }
            return;
        }
        let (_dir, host) = host();
        let args = args(json!({ "pattern": "x" }));
        let limit = |current| {
            let maximum = getrlimit(Resource::Nproc).maximum;
            setrlimit(Resource::Nproc, Rlimit { current, maximum }).unwrap();
        };
        let find = || {
            let go_on = AtomicBool::new(false);
            find(&host, &Here::default(), &args, WIDE, &go_on, |_| false)
        };
        limit(Some(1));
        let refused = find().err().unwrap().to_string();
        assert!(refused.contains("no thread can be started"), "{refused}");
        let running = fs::read_dir("/proc/self/task").unwrap().count() as u64;
        limit(Some(running + 1));
        assert_eq!(find().unwrap().found, 40 * 10 * 3);
    }
}
