//! Chromium without a window, driven over WebDriver (W3C).

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;
use ureq::{Agent, Body, http::Response};

const DRIVER: &str = "chromedriver";

/// No answer of the driver takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longest answer, in bytes: a picture.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// A browser; it ends with this.
pub struct Browser {
    driver: Child,
    agent: Agent,
    session: String,
    _profile: TempDir,
}

impl Browser {
    /// Starts one. `None`, with a word, where it is not installed.
    pub fn start() -> Option<Self> {
        let spawned = Command::new(DRIVER)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut driver) = spawned else {
            eprintln!("skipped: chromium is not installed (scripts/install-packages tools)");
            return None;
        };
        let lines = BufReader::new(driver.stdout.take().expect("a pipe")).lines();
        let port = lines
            .map_while(Result::ok)
            .find_map(|line| {
                let (_, port) = line.split_once("started successfully on port ")?;
                port.trim_end_matches('.').parse::<u16>().ok()
            })
            .expect("the driver prints its port");
        let agent = Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .http_status_as_error(false)
            .build()
            .into();
        let profile = tempfile::tempdir().expect("a directory");
        let mut browser = Self {
            driver,
            agent,
            session: format!("http://127.0.0.1:{port}/session"),
            _profile: profile,
        };
        let directory = format!("--user-data-dir={}", browser._profile.path().display());
        let options = json!({
            "args": [
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                directory,
            ],
        });
        let wanted =
            json!({ "capabilities": { "alwaysMatch": { "goog:chromeOptions": options } } });
        let begun = browser.post("", &wanted);
        let id = begun["sessionId"]
            .as_str()
            .unwrap_or_else(|| panic!("{begun}"));
        browser.session = format!("{}/{id}", browser.session);
        Some(browser)
    }

    /// Loads a page.
    pub fn open(&self, url: &str) {
        self.post("/url", &json!({ "url": url }));
    }

    /// Runs a script in each page that is loaded from now on, before the scripts of the page.
    pub fn before_pages(&self, script: &str) {
        let command = json!({
            "cmd": "Page.addScriptToEvaluateOnNewDocument",
            "params": { "source": script },
        });
        self.post("/goog/cdp/execute", &command);
    }

    /// Returns the result of a script in the page.
    pub fn script(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Makes the window so large, in pixels.
    pub fn resize(&self, width: u32, height: u32) {
        self.post("/window/rect", &json!({ "width": width, "height": height }));
    }

    /// A picture of the window, as PNG.
    pub fn picture(&self) -> Vec<u8> {
        let url = format!("{}/screenshot", self.session);
        let picture = parse_answer(self.agent.get(&url).call(), "/screenshot");
        let picture = picture.as_str().expect("a picture");
        BASE64_STANDARD.decode(picture).expect("base64")
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let url = format!("{}{path}", self.session);
        let request = self.agent.post(&url).content_type("application/json");
        parse_answer(request.send(body.to_string()), path)
    }
}

/// The driver's reply to a request for `path`.
fn parse_answer(answer: Result<Response<Body>, ureq::Error>, path: &str) -> Value {
    let mut answer = answer.expect("the driver answers");
    let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
    let text = body.read_to_string().expect("text");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert!(value["value"]["error"].is_null(), "{path}: {value}");
    value["value"].clone()
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its browser ends with the session.
        let _ = self.agent.delete(&self.session).call();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
