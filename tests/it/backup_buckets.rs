//! A bucket holds backups and the log as a folder does: S3, as the package `moto` serves it, and Azure,
//! as `azurite` does.

use std::process::{Child, Command, Stdio};

use super::backups::serve;
use super::*;

/// A server with an empty bucket. It ends with this value.
struct Bucket {
    server: Child,
    place: &'static str,
    /// The variables by which a node and the command line find it.
    environment: Vec<(&'static str, String)>,
}

impl Bucket {
    async fn s3() -> Self {
        let address = free_address();
        let port = address.port().to_string();
        let server = start(Command::new(installed("moto_server")).args(["-p", &port]));
        let url = format!("http://{address}");
        let bucket = format!("{url}/backups");
        created(&[CREATE_BUCKET, &bucket]).await;
        let environment = [
            ("AWS_ENDPOINT", &url[..]),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
        ];
        let environment = environment.map(|(name, value)| (name, value.to_owned())).into();
        Self { server, place: "s3://backups/hearth", environment }
    }

    async fn azure() -> Self {
        let address = free_address();
        let script = cache().join("azurite/node_modules/azurite/dist/src/blob/main.js");
        let server = start(
            Command::new(cache().join("node-22.20.0/bin/node"))
                .arg(script)
                .args(["--inMemoryPersistence", "--skipApiVersionCheck", "--silent"])
                .args(["--blobPort", &address.port().to_string()]),
        );
        let environment = [
            ("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT),
            ("AZURE_STORAGE_ACCOUNT_KEY", ACCOUNT_KEY),
            ("AZURE_ALLOW_HTTP", "true"),
            ("AZURE_STORAGE_ENDPOINT", &format!("http://{address}/{ACCOUNT}")),
        ];
        let environment = environment.map(|(name, value)| (name, value.to_owned())).into();
        created(&[CREATE_CONTAINER, ACCOUNT, ACCOUNT_KEY, &address.to_string()]).await;
        Self { server, place: "az://backups/hearth", environment }
    }

    /// Runs `hearth`, which must succeed. Returns its output.
    async fn run(&self, cluster: &Cluster, arguments: &[&str]) -> String {
        let mut command = tokio::process::Command::new(cluster.binary());
        let environment = self.environment.iter().map(|(name, value)| (name, value));
        command.args(arguments).envs(environment);
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

const CREATE_BUCKET: &str = "
import sys, urllib.request
urllib.request.urlopen(urllib.request.Request(sys.argv[1], method='PUT'))
";
/// The account of the server, which its documentation names.
const ACCOUNT: &str = "devstoreaccount1";
const ACCOUNT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/// Creates the container `backups`: the request is signed as Azure's documentation says.
const CREATE_CONTAINER: &str = r#"
import base64, email.utils, hashlib, hmac, sys, urllib.request
account, key, address = sys.argv[1:]
headers = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
signed = f"PUT{12 * chr(10)}" + "".join(f"{name}:{value}\n" for name, value in headers.items())
signed += f"/{account}/{account}/backups\nrestype:container"
digest = hmac.new(base64.b64decode(key), signed.encode(), hashlib.sha256).digest()
headers["Authorization"] = f"SharedKey {account}:{base64.b64encode(digest).decode()}"
headers["Content-Type"] = ""
url = f"http://{address}/{account}/backups?restype=container"
urllib.request.urlopen(urllib.request.Request(url, method="PUT", data=b"", headers=headers))
"#;

/// Runs a script of Python with arguments until the server accepts its request.
async fn created(script: &[&str]) {
    let create = async || {
        let ran = Command::new("python3").arg("-c").args(script).stderr(Stdio::null()).status();
        ran.unwrap().success()
    };
    eventually("the bucket is created", create, |created| *created).await;
}

fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[tokio::test]
async fn s3_holds_backups_and_the_log() {
    assert_restores(Bucket::s3().await).await;
}

#[tokio::test]
#[ignore = "`make soak` installs the server"]
async fn azure_holds_backups_and_the_log() {
    assert_restores(Bucket::azure().await).await;
}

/// Backups by hand and by a schedule, and the log after them, become the cluster that there was.
async fn assert_restores(bucket: Bucket) {
    let place = bucket.place;
    let shipping = options()
        .env("HEARTH__BACKUP__URL", place)
        .env("HEARTH__BACKUP__LOG_SECONDS", "1")
        .env("FAILPOINTS", "backup-pause=return");
    let variables = bucket.environment.iter();
    let shipping = variables.fold(shipping, |options, (name, value)| options.env(name, value));
    let mut cluster = shipping.nodes(3).start();
    let newest = async || cluster.metric("hearth_backup_newest_timestamp_seconds").await;
    eventually("there is a backup", newest, |newest| *newest > 0.0).await;
    cluster.store_each((0..50).map(labelled)).await;
    bucket.run(&cluster, &["backup", "create", place, "--ops", cluster.ops()]).await;
    let listed = bucket.run(&cluster, &["backup", "list", "--json", place]).await;
    assert_eq!(listed.lines().count(), 2, "{listed}");
    cluster.store_each((50..70).map(labelled)).await;
    let index = cluster.status().await.unwrap()["applied_index"].as_u64().unwrap();
    let shipped = async || cluster.metric("hearth_backup_log_index").await;
    let is_shipped = |shipped: &f64| *shipped >= index as f64 - 1.0;
    eventually("the log is shipped", shipped, is_shipped).await;
    let pruned = bucket.run(&cluster, &["backup", "prune", place, "--keep", "1"]).await;
    assert!(pruned.contains("Removed 1 backups"), "{pruned}");
    let checked = bucket.run(&cluster, &["backup", "check", place, "--data"]).await;
    assert!(checked.contains("is complete") && checked.contains("The log after it"), "{checked}");
    let before = stored(&cluster).await;
    assert!(cluster.stop().await);
    let config = cluster.restored_config();
    bucket.run(&cluster, &["restore", place, "--config", config.to_str().unwrap()]).await;
    let _process = serve(&cluster, &config).await;
    assert_eq!(stored(&cluster).await, before);
}
