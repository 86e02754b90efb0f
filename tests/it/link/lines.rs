//! A connection that speaks a line of JSON per message.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};

use super::server::Running;
use crate::expand;

pub(crate) struct Lines {
    reader: BufReader<Box<dyn AsyncRead + Unpin + Send>>,
    /// `None` once the input was ended.
    writer: Option<Box<dyn AsyncWrite + Unpin + Send>>,
    probes: usize,
    server: Running,
}

impl Lines {
    pub(crate) fn new(
        reader: impl AsyncRead + Unpin + Send + 'static,
        writer: impl AsyncWrite + Unpin + Send + 'static,
        server: Running,
    ) -> Self {
        Self {
            reader: BufReader::new(Box::new(reader)),
            writer: Some(Box::new(writer)),
            probes: 0,
            server,
        }
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        let writer = self.writer.as_mut().ok_or("the input was ended")?;
        let line = [bytes, b"\n"].concat();
        writer
            .write_all(&line)
            .await
            .map_err(|err| format!("cannot send: {err}"))
    }

    pub(crate) async fn next(&mut self) -> Result<Option<Value>, String> {
        let mut line = String::new();
        let read = self.reader.read_line(&mut line).await;
        match read.map_err(|err| format!("cannot read: {err}"))? {
            0 => Ok(None),
            _ if !line.ends_with('\n') => Err(format!("a line without its end: {line}")),
            _ => serde_json::from_str(&line)
                .map(Some)
                .map_err(|err| format!("a line that is no JSON ({err}): {line}")),
        }
    }

    /// Sends a request of our own: lines are taken in order, so its answer comes after all was taken in.
    pub(crate) async fn settle(&mut self) -> Result<Vec<Value>, String> {
        self.probes += 1;
        let id = json!(format!("probe {}", self.probes));
        let params = json!({ "_meta": expand::standard_meta() });
        let probe =
            json!({ "jsonrpc": "2.0", "id": id, "method": "server/discover", "params": params });
        self.send(probe.to_string().as_bytes()).await?;
        let mut came = Vec::new();
        loop {
            match self.next().await? {
                Some(message) if message["id"] == id && message.get("result").is_some() => {
                    return Ok(came);
                }
                Some(message) => came.push(message),
                None => return Err("the connection ended".into()),
            }
        }
    }

    pub(crate) async fn finish(&mut self) -> Result<Vec<Value>, String> {
        if let Some(mut writer) = self.writer.take() {
            writer
                .shutdown()
                .await
                .map_err(|err| format!("cannot end the input: {err}"))?;
        }
        let mut came = Vec::new();
        while let Some(message) = self.next().await? {
            came.push(message);
        }
        self.server.finish().await.map(|()| came)
    }
}
