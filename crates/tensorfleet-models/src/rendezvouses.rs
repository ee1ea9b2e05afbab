//! The rendezvous: every receiver is answered once, and no value is lost or handed out twice.

use std::sync::mpsc;

use loom::sync::Arc;
use loom::thread;
use tensorfleet_core::{Code, RendezvousKey, Result, Status, Tensor};
use tensorfleet_kernel::continuation::Resume;
use tensorfleet_kernel::rendezvous::{OnReceived, Rendezvous, Transfer};

use crate::check;
use crate::rendezvous::LocalRendezvous;

/// What receivers were answered, in order. (A channel of the standard library, which no model needs to see: it is read
/// when all threads have ended.)
struct Answers {
    sender: mpsc::Sender<Result<Transfer>>,
    receiver: mpsc::Receiver<Result<Transfer>>,
}

impl Answers {
    fn new() -> Answers {
        let (sender, receiver) = mpsc::channel();
        Answers { sender, receiver }
    }

    fn listener(&self) -> OnReceived {
        let sender = self.sender.clone();
        Box::new(move |answer, _| sender.send(answer).expect("the model still listens"))
    }

    /// The answers: each the number that was received, or the code of the error.
    fn collect(self) -> Vec<std::result::Result<i32, Code>> {
        let Answers { sender, receiver } = self;
        drop(sender);
        let number =
            |value: Transfer| value.expect("it is not dead").to_scalar::<i32>().expect("it is a number");
        receiver.into_iter().map(|answer| answer.map(number).map_err(|status| status.code())).collect()
    }
}

fn key() -> RendezvousKey {
    "/job:a;1;/job:b;x;0:0".parse().expect("it has five parts")
}

fn send(rendezvous: &LocalRendezvous, number: i32) -> Result<()> {
    rendezvous.send(key(), Some(Tensor::scalar(number)), Resume::OnPool)
}

/// Two senders and two receivers of one key, all at once: each receiver gets one of the values.
///
/// Finds, in `receive_withdrawably` and `put`: the lock let go between the look for the other side and the entry of one's
/// own (both sides wait for each other for ever).
pub fn every_value_meets_one_receiver() {
    check(|| {
        let rendezvous = Arc::new(LocalRendezvous::new());
        let answers = Answers::new();
        let sender = {
            let rendezvous = rendezvous.clone();
            thread::spawn(move || [1, 2].map(|number| send(&rendezvous, number).expect("nobody aborts")))
        };
        let receiver = {
            let (rendezvous, listener) = (rendezvous.clone(), answers.listener());
            thread::spawn(move || rendezvous.receive(key(), listener))
        };
        rendezvous.receive(key(), answers.listener());
        sender.join().expect("the sender ends well");
        receiver.join().expect("the receiver ends well");
        assert!(rendezvous.is_empty());
        drop(rendezvous);
        let mut numbers = answers.collect();
        numbers.sort_by_key(|number| number.ok());
        assert_eq!(numbers, [Ok(1), Ok(2)]);
    });
}

/// A value, its receiver and an abort at once: the receiver is answered once, with the value or with the reason, and
/// nothing waits afterwards.
///
/// Finds, in `receive_withdrawably`: a receiver that is entered without a look at the abort under the same lock (it is
/// never answered); in `abort`: the reason set after the table was emptied under another lock (the same); in `put`: no
/// look at the abort (a value stays behind that nobody will fetch).
pub fn an_abort_answers_every_receiver_once() {
    check(|| {
        let rendezvous = Arc::new(LocalRendezvous::new());
        let answers = Answers::new();
        let aborter = {
            let rendezvous = rendezvous.clone();
            thread::spawn(move || rendezvous.abort(Status::aborted("the peer restarted")))
        };
        let sender = {
            let rendezvous = rendezvous.clone();
            thread::spawn(move || send(&rendezvous, 1).map_err(|status| status.code()))
        };
        rendezvous.receive(key(), answers.listener());
        aborter.join().expect("the aborter ends well");
        let sent = sender.join().expect("the sender ends well");
        assert!(rendezvous.is_empty());
        drop(rendezvous);
        match (sent, &answers.collect()[..]) {
            (Ok(()), [Ok(1) | Err(Code::Aborted)]) | (Err(Code::Aborted), [Err(Code::Aborted)]) => {}
            other => panic!("a send and the answers of one receiver: {other:?}"),
        }
    });
}

/// The first of two receivers is withdrawn while a value comes: either it was withdrawn, and the second got the value, or
/// it was answered, and the second still waits.
///
/// Finds, in `withdraw`: an answer that does not tell whether the receiver was still there.
pub fn a_receiver_is_withdrawn_or_answered() {
    check(|| {
        let rendezvous = Arc::new(LocalRendezvous::new());
        let (first, second) = (Answers::new(), Answers::new());
        let wait = |answers: &Answers| rendezvous.receive_withdrawably(key(), answers.listener());
        let ids = [wait(&first), wait(&second)].map(|id| id.expect("no value has come yet"));
        let sender = {
            let rendezvous = rendezvous.clone();
            thread::spawn(move || send(&rendezvous, 1).expect("nobody aborts"))
        };
        let was_withdrawn = rendezvous.withdraw(&key(), ids[0]);
        sender.join().expect("the sender ends well");
        assert_eq!(rendezvous.withdraw(&key(), ids[1]), !was_withdrawn);
        assert!(rendezvous.is_empty());
        drop(rendezvous);
        let answers = [first, second].map(|answers| answers.collect());
        assert_eq!(answers, if was_withdrawn { [vec![], vec![Ok(1)]] } else { [vec![Ok(1)], vec![]] });
    });
}
