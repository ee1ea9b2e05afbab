//! Downloads from a server on loopback: one that works, and those that do not.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use tensorfleet_core::Code;

use super::*;
use crate::mnist::{self, parts};

/// The rule of all tests that need something of the machine.
#[path = "../../../tests/src/skipping.rs"]
#[allow(dead_code, unreachable_pub)]
mod skipping;

/// Serves files by HTTP/1.0 until it is dropped.
struct Server {
    base: String,
    requests: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// How a server answers, given the bytes of the file that was asked for.
type Answer = fn(&[u8]) -> Vec<u8>;

impl Server {
    fn start(answer: Answer) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}/mnist/", listener.local_addr().unwrap());
        let (requests, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counter, stopped) = (requests.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                counter.fetch_add(1, Ordering::SeqCst);
                serve(stream.unwrap(), answer);
            }
        });
        Server { base, requests, stop, thread: Some(thread) }
    }

    fn fetch(&self, dir: &Path) -> Result<()> {
        fetch(&self.base, &parts(15_000, 2_500), PROGRAMS, dir)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // One more connection wakes the thread, which then sees that it is to stop.
        let _ = TcpStream::connect(self.base.trim_start_matches("http://").trim_end_matches("/mnist/"));
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn serve(stream: TcpStream, answer: Answer) {
    let mut lines = BufReader::new(&stream).lines().map(|line| line.unwrap());
    let request = lines.next().unwrap();
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let path = request.split(' ').nth(1).unwrap().trim_start_matches("/mnist/").to_string();
    let bytes = embedded_files().remove(path.as_str()).unwrap();
    // A client that has seen enough hangs up; that is its right.
    let _ = (&stream).write_all(&answer(bytes));
}

fn embedded_files() -> HashMap<&'static str, &'static [u8]> {
    mnist::EMBEDDED.iter().map(|file| (file.name, file.bytes)).collect()
}

fn response(length: usize, body: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.0 200 OK\r\nContent-Length: {length}\r\n\r\n").as_bytes(), body].concat()
}

fn whole(file: &[u8]) -> Vec<u8> {
    response(file.len(), file)
}

fn names_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        dir.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[track_caller]
fn assert_fails(answer: Answer, code: Code, words: &str) {
    let directory = tempfile::tempdir().unwrap();
    let status = Server::start(answer).fetch(directory.path()).unwrap_err();
    assert_eq!(status.code(), code, "{status}");
    assert!(status.text().contains(words), "{status}");
    assert!(status.text().contains("copy the four files of MNIST into"), "{status}");
    assert!(!status.text().contains('\n'), "{status}");
    assert_eq!(names_in(directory.path()), Vec::<String>::new(), "something was left behind");
}

#[test]
fn what_is_fetched_can_be_read_and_is_fetched_once() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("new/mnist");
    let server = Server::start(whole);
    server.fetch(&dir).unwrap();
    assert_eq!(mnist::read_data_sets(&dir).unwrap().train.len(), 13_750);
    assert_eq!(names_in(&dir).len(), 4);
    assert_eq!(server.requests.load(Ordering::SeqCst), 4);

    server.fetch(&dir).unwrap();
    assert_eq!(server.requests.load(Ordering::SeqCst), 4, "good files are kept");

    // A damaged file is fetched anew; one that was unpacked is good as it is.
    fs::write(dir.join("t10k-labels-idx1-ubyte.gz"), b"half").unwrap();
    let zipped = dir.join("train-labels-idx1-ubyte.gz");
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&fs::read(&zipped).unwrap()[..]).read_to_end(&mut plain).unwrap();
    fs::write(dir.join("train-labels-idx1-ubyte"), plain).unwrap();
    fs::remove_file(zipped).unwrap();
    server.fetch(&dir).unwrap();
    assert_eq!(server.requests.load(Ordering::SeqCst), 5);
    assert_eq!(mnist::read_data_sets(&dir).unwrap().test.len(), 2_500);
}

#[test]
fn wget_does_what_curl_does() {
    let wget = &PROGRAMS[1..];
    if Command::new(wget[0].name).arg("--version").output().is_err() {
        skipping::skip("this machine has no wget", "install the package of that name");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(whole);
    fetch(&server.base, &parts(15_000, 2_500), wget, directory.path()).unwrap();
    assert_eq!(mnist::read_data_sets(directory.path()).unwrap().test.len(), 2_500);
    let missing = Server::start(|_| b"HTTP/1.0 404 Not Found\r\n\r\n".to_vec());
    let other = tempfile::tempdir().unwrap();
    let status = fetch(&missing.base, &parts(1, 1), wget, other.path()).unwrap_err();
    assert!(status.text().contains("404"), "{status}");
}

#[test]
fn an_answer_that_is_no_file_leaves_nothing_behind() {
    assert_fails(|_| b"HTTP/1.0 404 Not Found\r\n\r\n".to_vec(), Code::Unavailable, "404");
    // The connection breaks in the middle, and the program knows it or does not.
    assert_fails(
        |file| response(file.len(), &file[..file.len() / 2]),
        Code::Unavailable,
        "cannot be fetched",
    );
    assert_fails(|file| response(file.len() / 2, &file[..file.len() / 2]), Code::DataLoss, "truncated");
    // A page to log in, as hotels have it.
    assert_fails(|_| whole(b"<html>Welcome</html>"), Code::InvalidArgument, "is not an idx file");
    let another_set: Answer = |_| whole(embedded_files()["t10k-images-idx3-ubyte.gz"]);
    assert_fails(another_set, Code::DataLoss, "gave 2500 images instead of 15000");
}

#[test]
fn without_a_server_or_a_program_it_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    // Nothing listens on a port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let base = format!("http://127.0.0.1:{port}/");
    let status = fetch(&base, &parts(1, 1), PROGRAMS, directory.path()).unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert!(status.text().contains("leave --data_dir away"), "{status}");

    let none = [Program { name: "tensorfleet-has-no-such-program", arguments: &[] }];
    let status = fetch(&base, &parts(1, 1), &none, directory.path()).unwrap_err();
    assert_eq!(status.code(), Code::NotFound, "{status}");
    assert!(status.text().contains("has no program tensorfleet-has-no-such-program"), "{status}");
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, b"").unwrap();
    let status = fetch("http://127.0.0.1:9/", &parts(1, 1), PROGRAMS, &file.join("inside")).unwrap_err();
    assert!(status.text().contains("cannot be made"), "{status}");
}
