//! Log lines on stderr, as many as are asked for.

use tracing_subscriber::EnvFilter;

/// `RUST_LOG` wins over `-v`. Quiet: the terminal is another program's.
pub(crate) fn start(verbose: u8, is_quiet: bool) {
    let default = match verbose {
        0 if is_quiet => "off",
        0 => "warn",
        1 => "info,lmcp=debug,lmcp_core=debug,lmcp_http=debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
}
