//! The limit: hyper reads each request and sends one fixed answer.
//!
//! It is not an MCP server. It looks at no header and parses no JSON, so what a
//! real server costs above it is the price of the protocol.

use std::{convert::Infallible, error::Error};

use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    header::{CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

fn main() -> Result<(), Box<dyn Error>> {
    let port = match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [mode, port] if mode == "http" => port.parse::<u16>()?,
        _ => return Err("usage: bare-hyper http PORT".into()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    runtime.block_on(serve(port))
}

async fn serve(port: u16) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(connection(stream));
    }
}

async fn connection(stream: TcpStream) {
    // A client that goes away in the middle is no event worth telling.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service_fn(answer))
        .await;
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    // The whole body is read, as any server must before it can answer a call.
    let _ = request.into_body().collect().await;
    let mut response = Response::new(Full::new(Bytes::from_static(ANSWER)));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// As long as the answer of a real server to the benchmark's request: the load
/// scripts give every request a ten-digit id.
const ANSWER: &[u8] = br#"{"jsonrpc":"2.0","id":1000000001,"result":{"resultType":"complete","content":[{"type":"text","text":"hello world"}],"isError":false,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"echo","version":"0.1.0"}}}}"#;
