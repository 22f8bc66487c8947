//! The log lines of a node, to standard error: text for people, JSON for collectors. Each line of JSON names
//! node, cluster and version, since collectors mix the lines of all nodes.

use std::fmt::Result as Written;
use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::Duration;

use storage::span::TARGET;
use storage::{Reader, View};
use tokio::time::sleep;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{Format, Json, Writer};
use tracing_subscriber::fmt::{self, FmtContext, FormatEvent, FormatFields, format};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::collector::SpanCollector;
use crate::config::{Log, LogFormat};
use crate::error::text;
use crate::program::VERSION;

/// Interval at which a node without a cluster looks for one.
const INTERVAL: Duration = Duration::from_secs(1);

/// What is known of this process, once it is. A process runs one node.
static NODE: OnceLock<u64> = OnceLock::new();
static CLUSTER: OnceLock<String> = OnceLock::new();

/// Configures the log and the spans of the whole process. It can be called once.
pub(crate) fn start_logging(log: &Log, collector: Option<&SpanCollector>) -> Result<(), String> {
    let filter = EnvFilter::try_new(&log.filter).map_err(|error| format!("log.filter: {error}"))?;
    // Lines show no spans.
    let filter = filter.add_directive(format!("{TARGET}=off").parse().map_err(text)?);
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // A node outlives its terminal. Its failed writes must not end a task.
        .log_internal_errors(false);
    let lines = match log.format {
        LogFormat::Text => lines.with_filter(filter).boxed(),
        LogFormat::Json => {
            lines.json().event_format(WithNode(format().json())).with_filter(filter).boxed()
        }
    };
    let spans = collector.map(SpanCollector::layer);
    tracing_subscriber::registry().with(lines).with(spans).try_init().map_err(text)
}

/// Names the node in all lines from here on.
pub(crate) fn name_node(node: u64) {
    NODE.get_or_init(|| node);
}

/// Names the cluster in all lines, as soon as the node has one.
pub(crate) async fn name_cluster(reader: Reader) {
    loop {
        // A storage fault stops the node, and is logged where it occurs.
        let Ok(cluster) = reader.cluster() else { return };
        if let Some(cluster) = cluster {
            CLUSTER.get_or_init(|| hex::encode(cluster.id));
            return;
        }
        sleep(INTERVAL).await;
    }
}

/// Lines of JSON that begin with what is known of the node.
struct WithNode(Format<Json>);

impl<S, N> FormatEvent<S, N> for WithNode
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> Written {
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        writer.write_str("{")?;
        if let Some(node) = NODE.get() {
            write!(writer, "\"node\":{node},")?;
        }
        if let Some(cluster) = CLUSTER.get() {
            write!(writer, "\"cluster\":\"{cluster}\",")?;
        }
        write!(writer, "\"version\":\"{VERSION}\",")?;
        writer.write_str(line.strip_prefix('{').ok_or(std::fmt::Error)?)
    }
}
