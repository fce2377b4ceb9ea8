//! An `AF_XDP` socket on one queue, with a few frames of memory.

use std::{
    io::Write,
    num::NonZeroU32,
    os::fd::{AsRawFd, BorrowedFd},
    time::{Duration, Instant},
};

use xsk_rs::{
    CompQueue, FillQueue, FrameDesc, RxQueue, Socket as XskSocket, TxQueue, Umem,
    config::{BindFlags, LibxdpFlags, SocketConfig, UmemConfig},
};

const FRAMES: usize = 512;

/// A second, receive-only socket on a queue. It keeps the chunks that it receives.
pub struct Beside {
    umem: Umem,
    receive: RxQueue,
    _transmit: TxQueue,
    last: FrameDesc,
}

impl Beside {
    /// The descriptor, for the program's socket map.
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the ring that `self` owns.
        unsafe { BorrowedFd::borrow_raw(self.receive.fd().as_raw_fd()) }
    }

    /// Returns the next frame, or `None` if none arrived within `patience`.
    pub fn receive(&mut self, patience: Duration) -> Option<Vec<u8>> {
        let deadline = Instant::now() + patience;
        loop {
            // SAFETY: `last` is overwritten with the descriptor of a frame that the kernel
            // returned.
            if unsafe { self.receive.poll_and_consume_one(&mut self.last, 1) }.unwrap() == 1 {
                // SAFETY: the frame is ours now.
                return Some(unsafe { self.umem.data(&self.last) }.contents().to_vec());
            }
            if Instant::now() >= deadline {
                return None;
            }
        }
    }
}

/// The socket with its rings.
pub struct Socket {
    umem: Umem,
    fill: FillQueue,
    completion: CompQueue,
    receive: RxQueue,
    transmit: TxQueue,
    /// Frames that are ours and not the kernel's, for transmission.
    free: Vec<FrameDesc>,
}

impl Socket {
    /// Binds a socket to the queue of the named interface, without an XDP program of the library.
    pub fn bind(interface: &str, queue: u32) -> Self {
        let frames = NonZeroU32::new(FRAMES as u32).unwrap();
        let (umem, mut descriptors) =
            Umem::new(UmemConfig::default(), frames, false).expect("UMEM");
        let config = SocketConfig::builder()
            .libxdp_flags(LibxdpFlags::XSK_LIBXDP_FLAGS_INHIBIT_PROG_LOAD)
            .bind_flags(BindFlags::XDP_COPY)
            .build();
        // SAFETY: each queue of a test's own namespace gets one socket.
        let (transmit, receive, rings) =
            unsafe { XskSocket::new(config, &umem, &interface.parse().unwrap(), queue) }
                .expect("AF_XDP socket");
        let (mut fill, completion) = rings.unwrap();
        let free = descriptors.split_off(FRAMES / 2);
        // SAFETY: these frames of the socket's own UMEM have no other user.
        unsafe { fill.produce(&descriptors) };
        Self {
            umem,
            fill,
            completion,
            receive,
            transmit,
            free,
        }
    }

    /// Two sockets on the queue that share its memory and fill ring.
    pub fn bind_two(interface: &str, queue: u32) -> (Self, Beside) {
        let first = Self::bind(interface, queue);
        let config = SocketConfig::builder()
            .libxdp_flags(LibxdpFlags::XSK_LIBXDP_FLAGS_INHIBIT_PROG_LOAD)
            .bind_flags(BindFlags::XDP_COPY)
            .build();
        // SAFETY: the library's own program is inhibited.
        let made =
            unsafe { XskSocket::new(config, &first.umem, &interface.parse().unwrap(), queue) };
        let (transmit, receive, rings) = made.expect("a second AF_XDP socket");
        assert!(
            rings.is_none(),
            "the rings of the memory are the first one's"
        );
        let beside = Beside {
            umem: first.umem.clone(),
            receive,
            _transmit: transmit,
            last: FrameDesc::default(),
        };
        (first, beside)
    }

    /// The descriptor, for the program's socket map.
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the ring that `self` owns.
        unsafe { BorrowedFd::borrow_raw(self.receive.fd().as_raw_fd()) }
    }

    /// Sends the frames out of the socket's queue.
    pub fn send(&mut self, frames: &[Vec<u8>]) {
        for frame in frames {
            let mut descriptor = self.free.pop().expect("a free frame");
            // SAFETY: the frame is ours until it is produced.
            unsafe { self.umem.data_mut(&mut descriptor) }
                .cursor()
                .write_all(frame)
                .unwrap();
            // SAFETY: as above; it comes back through the completion ring.
            let sent = unsafe { self.transmit.produce_one_and_wakeup(&descriptor) }.unwrap();
            assert_eq!(sent, 1, "room in the TX ring");
            self.take_back(&descriptor);
        }
    }

    fn take_back(&mut self, descriptor: &FrameDesc) {
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut done = *descriptor;
        // SAFETY: `done` describes a frame of this UMEM and is overwritten.
        while unsafe { self.completion.consume_one(&mut done) } == 0 {
            assert!(
                Instant::now() < deadline,
                "the kernel did not send the frame"
            );
            self.transmit.wakeup().unwrap();
        }
        self.free.push(done);
    }

    /// Returns the next frame, or `None` if none arrived within `patience`.
    pub fn receive(&mut self, patience: Duration) -> Option<Vec<u8>> {
        let deadline = Instant::now() + patience;
        let mut descriptor = self
            .free
            .last()
            .copied()
            .expect("a descriptor to overwrite");
        loop {
            // SAFETY: `descriptor` is overwritten with that of a frame that the kernel returned.
            if unsafe { self.receive.poll_and_consume_one(&mut descriptor, 1) }.unwrap() == 1 {
                // SAFETY: the frame is ours now.
                let frame = unsafe { self.umem.data(&descriptor) }.contents().to_vec();
                // SAFETY: the frame is ours, and nothing uses it after the copy.
                unsafe { self.fill.produce_one(&descriptor) };
                return Some(frame);
            }
            if Instant::now() >= deadline {
                return None;
            }
        }
    }
}
