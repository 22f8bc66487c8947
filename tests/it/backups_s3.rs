//! A bucket holds backups as a folder does: S3, as the package `moto` serves it.

use std::process::{Child, Command, Stdio};

use super::backups::serve;
use super::*;

const PLACE: &str = "s3://backups/hearth";

/// The server with an empty bucket. It ends with this value.
struct Bucket {
    server: Child,
    url: String,
}

impl Bucket {
    async fn start() -> Self {
        let address = free_address();
        let server = Command::new(installed("moto_server"))
            .args(["-p", &address.port().to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let bucket = Self { server, url: format!("http://{address}") };
        let client = reqwest::Client::new();
        let create = async || {
            let created = client.put(format!("{}/backups", bucket.url)).send().await;
            created.is_ok_and(|response| response.status().is_success())
        };
        eventually("the bucket is created", create, |created| *created).await;
        bucket
    }

    /// The variables by which a node and the command line find it.
    fn environment(&self) -> [(&'static str, &str); 5] {
        [
            ("AWS_ENDPOINT", &self.url),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
        ]
    }

    /// Runs `hearth`, which must succeed. Returns its output.
    async fn run(&self, cluster: &Cluster, arguments: &[&str]) -> String {
        let mut command = tokio::process::Command::new(cluster.binary());
        command.args(arguments).envs(self.environment());
        command.env("HEARTH_OPERATOR_KEY", string(&cluster.info["operator_key"]));
        let ran = command.output().await.unwrap();
        let text = String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap();
        assert!(ran.status.success(), "{arguments:?}: {text}");
        text
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        drop(self.server.kill());
        drop(self.server.wait());
    }
}

#[tokio::test]
async fn bucket_holds_backups_and_restores_them() {
    let bucket = Bucket::start().await;
    let variables = bucket.environment().into_iter();
    let options = variables.fold(options(), |options, (name, value)| options.env(name, value));
    let mut cluster = options.start();
    cluster.store_each((0..50).map(labelled)).await;
    for _ in 0..2 {
        bucket.run(&cluster, &["backup", "create", PLACE, "--ops", cluster.ops()]).await;
    }
    let listed = bucket.run(&cluster, &["backup", "list", "--json", PLACE]).await;
    assert_eq!(listed.lines().count(), 2, "{listed}");
    let pruned = bucket.run(&cluster, &["backup", "prune", PLACE, "--keep", "1"]).await;
    assert!(pruned.contains("Removed 1 backups"), "{pruned}");
    let checked = bucket.run(&cluster, &["backup", "check", PLACE, "--data"]).await;
    assert!(checked.contains("is complete"), "{checked}");
    let before = stored(&cluster).await;
    assert!(cluster.stop().await);
    let config = cluster.restored_config();
    bucket.run(&cluster, &["restore", PLACE, "--config", config.to_str().unwrap()]).await;
    let _process = serve(&cluster, &config).await;
    assert_eq!(stored(&cluster).await, before);
}
