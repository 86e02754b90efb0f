//! Log lines on stderr, as many as are asked for.

use tracing_subscriber::EnvFilter;

/// `RUST_LOG` wins over `-v`.
pub(crate) fn start(verbose: u8) {
    let default = match verbose {
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
