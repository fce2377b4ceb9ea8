//! `steer` decides for each frame of an interface whether the dataplane gets it, the kernel gets
//! it, or it is dropped.
//!
//! It drops a frame only if a rule or the default action requires it. Frames for the dataplane that
//! cannot be delivered go to the kernel.

#![no_std]
#![no_main]

mod counters;
mod frame;
mod headers;
#[allow(dead_code, reason = "shared with the loader, which uses the rest")]
mod layout;
mod maps;
mod rules;

use aya_ebpf::{
    bindings::xdp_action::{XDP_DROP, XDP_PASS, XDP_REDIRECT},
    macros::xdp,
    programs::XdpContext,
};

use crate::{
    counters::count,
    frame::Frame,
    headers::{ETHERTYPE_OFFSET, NoHeaders},
    layout::{
        ACTION_DATAPLANE, ACTION_DROP, COUNTER_NO_SOCKET, COUNTER_REDIRECT_REFUSED, Cause,
        FiveTupleKey, Network16, SETTING_DEFAULT_ACTION, SETTING_LINK_ETHERTYPE, dropped,
        socket_place, to_dataplane, to_kernel,
    },
    maps::{XSKS, setting},
};

/// Entry: called by the driver for every frame that arrives.
#[xdp]
pub fn steer(context: XdpContext) -> u32 {
    let (cause, action) = classify(&Frame::new(&context));
    if action == ACTION_DATAPLANE {
        return give_to_dataplane(&context, cause);
    }
    if action == ACTION_DROP {
        count(dropped(cause));
        return XDP_DROP;
    }
    count(to_kernel(cause));
    XDP_PASS
}

#[inline(always)]
fn classify(frame: &Frame) -> (Cause, u32) {
    let Some(ethertype) = frame.read::<Network16>(ETHERTYPE_OFFSET) else {
        return (Cause::Runt, setting(SETTING_DEFAULT_ACTION));
    };
    let link = setting(SETTING_LINK_ETHERTYPE);
    if link != 0 && link == u32::from(ethertype.get()) {
        return (Cause::Link, ACTION_DATAPLANE);
    }
    let mut tuple = FiveTupleKey::default();
    let (found, missed) = match headers::parse(frame, ethertype, &mut tuple) {
        Ok(headers) => (
            rules::find_by_packet(&headers, &tuple),
            Ok(headers.ethertype),
        ),
        Err(NoHeaders::NoEtherType) => (None, Err(Cause::Default)),
        Err(NoHeaders::Unparsable) => (None, Err(Cause::Unparsable)),
    };
    if let Some(found) = found.or_else(|| rules::find_vlan(frame, ethertype)) {
        return found;
    }
    let cause = match missed {
        Ok(ethertype) => match rules::find_ethertype(ethertype) {
            Some(found) => return found,
            None => Cause::Default,
        },
        Err(cause) => cause,
    };
    (cause, setting(SETTING_DEFAULT_ACTION))
}

/// Link frames go to their own socket, so that other frames cannot take its space. Without such a
/// socket they go to the common one.
#[inline(always)]
fn give_to_dataplane(context: &XdpContext, cause: Cause) -> u32 {
    let queue = context.rx_queue_index();
    if matches!(cause, Cause::Link) && redirect(queue, true).is_ok() {
        count(to_dataplane(cause));
        return XDP_REDIRECT;
    }
    match redirect(queue, false) {
        Ok(_) => {
            count(to_dataplane(cause));
            XDP_REDIRECT
        }
        Err(XDP_PASS) => {
            count(COUNTER_NO_SOCKET);
            XDP_PASS
        }
        Err(_) => {
            count(COUNTER_REDIRECT_REFUSED);
            XDP_PASS
        }
    }
}

/// The error is the flags value, which the kernel returns if there is no such socket.
#[inline(always)]
fn redirect(queue: u32, link: bool) -> Result<u32, u32> {
    XSKS.redirect(socket_place(queue, link), XDP_PASS.into())
}

/// Never reached: no panicking operation remains in the program after optimization, and the
/// verifier proves it.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// Only helpers that are open to every license are called.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 18] = *b"Apache-2.0 OR MIT\0";
