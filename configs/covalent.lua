-- Wireshark dissector for frames of Covalent links (EtherType 0x88b5). Shows the contents of each
-- record with slot, epoch and verb, the outcomes of verbs, whether each reflection matches the
-- frame that the other end sent, and whether the check of the frame is valid.
--
-- The format is version 4 of `protocol/src/wire`. The codecs in `protocol/src` document the
-- payloads of verbs, handshakes, keepalives and control messages. `make install` and the package
-- install this file to the plugin directory of Wireshark and tshark. Without installation:
--   tshark -X lua_script:configs/covalent.lua -r my.pcapng
--   tshark -X lua_script:configs/covalent.lua -r my.pcapng \
--     -Y 'covalent.reflected == "mismatch" || covalent.check == "bad"'

local VERSION = 4
local RECORD_BYTES = 64
local FIRST_PAYLOAD_AT, FIRST_PAYLOAD_BYTES = 28, 28
local NEXT_PAYLOAD_AT, NEXT_PAYLOAD_BYTES = 8, 48
local NO_PIGGYBACK = 255

local KINDS = {
    [0] = "Init", "Keepalive", "Request", "Tentative", "Reflecting", "Commit", "Committed", "Refused",
    "Resolve", "Resolved", "Relay", "Relayed", "Note", "Pass",
}
local MEANINGS = {
    [0] = "handshake of a new epoch", "I am here, with what I received", "1PC 1: execute this", "2PC 1: keep this",
    "2: in 1PC done, in 2PC kept", "2PC 3: execute it", "2PC 4: done", "2: I will not (JAM)", "how did it end?",
    "outcome query", "query a neighbor for the outcome", "outcome, from a neighbor", "of trees or channels",
    "a frame of a path",
}
local PROTOCOLS = { [0] = "init", "liveness", "state machine" }
local SLICES = { [0] = "complete", [3] = "all eight" }
local VERBS = {
    "read", "write", "swap", "compare_and_swap", "fetch_add", "fetch_and", "fetch_or", "fetch_xor", "multi_commit",
    "lookup", "fetch_min", "fetch_max", "send",
}
local STATUSES = { [0] = "ok", "mismatch", "gone", "contended" }
local REFUSALS = {
    "no_resources", "bad_request", "unknown_region", "out_of_bounds", "no_right", "unsupported", "busy", "misaligned",
    "bad_length", "duplicate", "queue_full", "journal_failed",
}
local ENDINGS = { [0] = "reversed", "committed", "refused", "forgotten", "never_seen", "no_path" }
local NOTES = {
    "advert", "search", "denied", "digest", "resync", "open", "opened", "close", [11] = "called", [14] = "wanted",
}
local CLOSE_REASONS = { "no_way", "no_room", "too_far", "broken", "idle", "failed", "silent", "overrun" }
local COMPARISONS = { "equal", "less", "less_or_equal", "greater", "greater_or_equal" }
local CHECKS = { good = "good", bad = "bad" }

local covalent = Proto("covalent", "Covalent link")
covalent.prefs.ethertype = Pref.uint("EtherType", 0x88b5, "As `fabric.ethertype` of the nodes")

local f = {
    kind = ProtoField.uint8("covalent.kind", "Kind", base.DEC, KINDS, 0x0f),
    version = ProtoField.uint8("covalent.version", "Version", base.DEC, nil, 0xf0),
    jam = ProtoField.bool("covalent.jam", "JAM", 8, nil, 0x80),
    protocol = ProtoField.uint8("covalent.protocol", "Protocol", base.DEC, PROTOCOLS, 0x70),
    slices = ProtoField.uint8("covalent.slices", "Slices still to acknowledge", base.DEC, SLICES, 0x03),
    mine = ProtoField.uint32("covalent.mine", "Mine", base.HEX),
    yours = ProtoField.uint32("covalent.yours", "Yours", base.HEX),
    reflected = ProtoField.string("covalent.reflected", "Reflected"),
    reflects = ProtoField.framenum("covalent.reflects", "Reflects the record in frame"),
    epoch = ProtoField.uint32("covalent.epoch", "Epoch"),
    sequence = ProtoField.uint32("covalent.sequence", "Record sequence"),
    slot_sequence = ProtoField.uint32("covalent.slot_sequence", "Slot sequence"),
    slot = ProtoField.uint8("covalent.slot", "Slot"),
    last_bytes = ProtoField.uint8("covalent.last_bytes", "Payload bytes in the last record"),
    records = ProtoField.uint8("covalent.records", "Records of this message", base.DEC, nil, 0x1f),
    fragment = ProtoField.uint8("covalent.fragment", "Fragment", base.DEC, nil, 0x60),
    more = ProtoField.bool("covalent.more", "More fragments follow", 8, nil, 0x80),
    piggyback = ProtoField.uint8("covalent.piggyback", "Piggybacked slot"),
    clock = ProtoField.uint32("covalent.clock", "Lamport clock, lower half"),
    payload = ProtoField.bytes("covalent.payload", "Payload"),
    check_value = ProtoField.uint64("covalent.check_value", "Check", base.HEX),
    check = ProtoField.string("covalent.check", "Check of the frame"),
    guid = ProtoField.uint64("covalent.guid", "GUID", base.HEX),
    incarnation = ProtoField.uint64("covalent.incarnation", "Incarnation", base.HEX),
    received_incarnation = ProtoField.uint64("covalent.received_incarnation", "Received incarnation", base.HEX),
    received_epoch = ProtoField.uint32("covalent.received_epoch", "Received epoch"),
    port = ProtoField.uint16("covalent.port", "Port"),
    slots = ProtoField.uint8("covalent.slots", "Slots"),
    grant = ProtoField.uint8("covalent.grant", "Slots granted"),
    window = ProtoField.uint16("covalent.window_records", "Room for records"),
    received = ProtoField.bool("covalent.received", "Received from the peer", 8, nil, 0x01),
    asks = ProtoField.bool("covalent.asks", "Asks for an answer", 8, nil, 0x02),
    owes = ProtoField.bool("covalent.owes", "Messages wait behind it", 8, nil, 0x01),
    old_echo = ProtoField.bool("covalent.old_echo", "Echo of an old Init", 8, nil, 0x01),
    name = ProtoField.string("covalent.name", "Name"),
    name_mark = ProtoField.uint16("covalent.name_mark", "Mark of the name", base.HEX),
    era = ProtoField.uint32("covalent.era", "Lamport clock, upper half"),
    verb = ProtoField.string("covalent.verb", "Verb"),
    condition = ProtoField.uint8("covalent.condition", "On condition that the word is", base.DEC, COMPARISONS, 0x0f),
    signed = ProtoField.bool("covalent.signed", "Compared as signed numbers", 8, nil, 0x10),
    count = ProtoField.uint16("covalent.count", "Count"),
    rkey = ProtoField.uint32("covalent.rkey", "Region key", base.HEX),
    offset = ProtoField.uint32("covalent.offset", "Offset in the region"),
    operand = ProtoField.uint64("covalent.operand", "Operand"),
    expected = ProtoField.uint64("covalent.expected", "Expected word"),
    data = ProtoField.bytes("covalent.data", "Data"),
    result = ProtoField.string("covalent.result", "Result"),
    index = ProtoField.uint16("covalent.index", "Word that was not as expected"),
    moment = ProtoField.uint64("covalent.moment", "Executed as the node's verb number"),
    moment_clock = ProtoField.uint64("covalent.moment_clock", "Executed at Lamport time"),
    word = ProtoField.uint64("covalent.word", "Old word"),
    refusal = ProtoField.uint8("covalent.refusal", "Refused because", base.DEC, REFUSALS),
    answers = ProtoField.framenum("covalent.answers", "Answers frame", base.NONE, frametype.RESPONSE),
    commit = ProtoField.bool("covalent.commit", "Commit what is kept"),
    ending = ProtoField.uint8("covalent.ending", "It ended", base.DEC, ENDINGS),
    asked_epoch = ProtoField.uint32("covalent.asked_epoch", "Epoch of the exchange"),
    origin = ProtoField.uint64("covalent.origin", "Origin", base.HEX),
    target = ProtoField.uint64("covalent.target", "Target", base.HEX),
    note = ProtoField.uint8("covalent.note", "Note", base.DEC, NOTES),
    root = ProtoField.uint64("covalent.root", "Root of the tree", base.HEX),
    hops = ProtoField.uint16("covalent.hops", "Hops"),
    channel = ProtoField.uint16("covalent.channel", "Channel"),
    opener = ProtoField.bool("covalent.opener", "The speaker opened it", 8, nil, 0x01),
    to_all = ProtoField.bool("covalent.to_all", "To everybody", 8, nil, 0x02),
    close_reason = ProtoField.uint8("covalent.close_reason", "Closed because", base.DEC, CLOSE_REASONS),
}
local fields = {}
for _, field in pairs(f) do
    fields[#fields + 1] = field
end
covalent.fields = fields

local bad_check = ProtoExpert.new("covalent.bad_check", "The check of the frame does not fit", expert.group.CHECKSUM, expert.severity.ERROR)
local mismatch = ProtoExpert.new("covalent.mismatch", "It reflects what the other end did not send", expert.group.SEQUENCE, expert.severity.ERROR)
local malformed = ProtoExpert.new("covalent.malformed", "No node of this version sends it", expert.group.MALFORMED, expert.severity.ERROR)
local refused = ProtoExpert.new("covalent.was_refused", "A request was refused", expert.group.RESPONSE_CODE, expert.severity.NOTE)
covalent.experts = { bad_check, mismatch, malformed, refused }

local eth_dst, eth_src = Field.new("eth.dst"), Field.new("eth.src")

-- CRC-64/NVME in two halves of 32 bits: Lua numbers cannot hold 64 bits.

local band, bxor, rshift, lshift, tobit = bit.band, bit.bxor, bit.rshift, bit.lshift, bit.tobit
local crc_high, crc_low = {}, {}
for byte = 0, 255 do
    local high, low = 0, byte
    for _ = 1, 8 do
        local carry = band(low, 1)
        low = bxor(rshift(low, 1), lshift(band(high, 1), 31))
        high = rshift(high, 1)
        if carry == 1 then
            high, low = bxor(high, 0x9a6c9329), bxor(low, 0xac4bc9b5)
        end
    end
    crc_high[byte], crc_low[byte] = high, low
end

-- The CRC of several concatenated ByteArrays. Compare it with `tobit` of the halves of a check.
local function crc(parts)
    local high, low = -1, -1
    for _, part in ipairs(parts) do
        for at = 0, part:len() - 1 do
            local index = band(bxor(low, part:get_index(at)), 0xff)
            low = bxor(bxor(rshift(low, 8), lshift(band(high, 0xff), 24)), crc_low[index])
            high = bxor(rshift(high, 8), crc_high[index])
        end
    end
    return bxor(high, -1), bxor(low, -1)
end

-- The mask of a check. It depends on the number of records.
local function length_mask(records)
    local low = records * 0x7f4a7c15
    local high = records * 0x9e3779b9 + math.floor(low / 2 ^ 32)
    return tobit(high % 2 ^ 32), tobit(low % 2 ^ 32)
end

-- State of the capture so far.

-- By sender and epoch: for each value of the liveness byte, the last mine half with it and its
-- frame.
local sent
-- By initiator, epoch, slot and slot sequence: verb and frame of a request.
local asked
-- By frame and record number in it: results of the first pass, which processes frames in order.
local found

function covalent.init()
    sent, asked, found = {}, {}, {}
end

local function note_sent(speaker, epoch, mine, records, number)
    local key = speaker .. "/" .. epoch
    local halves = sent[key] or {}
    sent[key] = halves
    for behind = 0, records - 1 do
        local liveness = band(rshift(mine, 8) + behind, 0xff)
        halves[liveness] = { mine = bxor(band(mine, 0xffff00ff), lshift(liveness, 8)), frame = number }
    end
end

local function look_up_reflection(listener, epoch, yours)
    if yours == 0 then
        return { what = "nothing received yet" }
    end
    local halves = sent[listener .. "/" .. epoch]
    local half = halves and halves[band(rshift(yours, 8), 0xff)]
    if not half then
        return { what = "not in this capture" }
    end
    if half.mine ~= tobit(yours) then
        return { what = "mismatch" }
    end
    return { what = "matches", frame = half.frame }
end

-- Dissectors of messages. Each receives the payload as a Tvb and returns a word for the info
-- column.

local function add_all(tree, payload, ...)
    for _, entry in ipairs({ ... }) do
        local field, at, length = entry[1], entry[2], entry[3]
        if payload:len() >= at + length then
            tree:add_le(field, payload(at, length))
        end
    end
end

local function dissect_init(payload, tree)
    add_all(tree, payload, { f.guid, 0, 8 }, { f.incarnation, 8, 8 }, { f.received_incarnation, 16, 8 }, { f.received_epoch, 24, 4 },
        { f.port, 28, 2 }, { f.slots, 30, 1 }, { f.received, 31, 1 }, { f.asks, 31, 1 }, { f.window, 32, 2 }, { f.grant, 34, 1 },
        { f.old_echo, 35, 1 })
    if payload:len() > 40 then
        tree:add(f.name, payload(40))
        return payload(40):string()
    end
end

local function dissect_keepalive(payload, tree)
    add_all(tree, payload, { f.owes, 0, 1 }, { f.asks, 0, 1 }, { f.grant, 1, 1 }, { f.port, 2, 2 }, { f.guid, 4, 8 },
        { f.incarnation, 12, 8 }, { f.era, 20, 4 }, { f.window, 24, 1 }, { f.slots, 25, 1 }, { f.name_mark, 26, 2 })
end

local function dissect_request(payload, tree)
    if payload:len() < 12 then
        return nil
    end
    local verb = VERBS[payload(0, 1):uint()]
    if not verb then
        return nil
    end
    tree:add(f.verb, payload(0, 1), verb)
    add_all(tree, payload, { f.condition, 1, 1 }, { f.signed, 1, 1 }, { f.count, 2, 2 }, { f.rkey, 4, 4 }, { f.offset, 8, 4 })
    local conditional = band(payload(1, 1):uint(), 0x0f) ~= 0
    local rest = payload:len() - 12
    if verb == "lookup" and rest > 0 then
        tree:add(f.name, payload(12))
        return verb .. " " .. payload(12):string()
    elseif verb == "write" or verb == "send" then
        if rest > 0 and not conditional then
            tree:add(f.data, payload(12))
        end
    elseif verb == "multi_commit" then
        for at = 12, payload:len() - 20, 20 do
            local word = tree:add(covalent, payload(at, 20), "Word at " .. payload(at, 4):le_uint())
            add_all(word, payload, { f.offset, at, 4 }, { f.expected, at + 4, 8 }, { f.operand, at + 12, 8 })
        end
    elseif rest == 16 then
        add_all(tree, payload, { f.expected, 12, 8 }, { f.operand, 20, 8 })
    elseif rest == 8 then
        add_all(tree, payload, { f.operand, 12, 8 })
    end
    return verb
end

local function dissect_reply(payload, tree, verb)
    if payload:len() < 20 then
        return nil
    end
    local status = STATUSES[payload(0, 1):uint()]
    if not status then
        return nil
    end
    tree:add(f.result, payload(0, 1), status)
    add_all(tree, payload, { f.index, 2, 2 }, { f.moment, 4, 8 }, { f.moment_clock, 12, 8 })
    local is_bytes = verb == "read" or verb == "lookup"
    if payload:len() == 28 and not is_bytes then
        tree:add_le(f.word, payload(20, 8))
    elseif payload:len() > 20 then
        tree:add(f.data, payload(20))
    end
    return status
end

local function dissect_refusal(payload, tree)
    if payload:len() < 1 then
        return nil
    end
    local why = REFUSALS[payload(0, 1):uint()] or "unsupported"
    tree:add(f.refusal, payload(0, 1)):add_proto_expert_info(refused)
    tree:add(f.result, payload(0, 1), "refused")
    return why
end

local function dissect_resolve(payload, tree)
    add_all(tree, payload, { f.port, 0, 2 }, { f.commit, 2, 1 }, { f.asked_epoch, 4, 4 })
end

local function dissect_resolved(payload, tree)
    if payload:len() < 8 then
        return nil
    end
    add_all(tree, payload, { f.port, 0, 2 }, { f.ending, 2, 1 }, { f.refusal, 3, 1 }, { f.slot_sequence, 4, 4 })
    local ending = ENDINGS[payload(2, 1):uint()]
    tree:add(f.result, payload(2, 1), ending or "?")
    return ending
end

local function dissect_relay(payload, tree)
    add_all(tree, payload, { f.origin, 0, 8 }, { f.incarnation, 8, 8 }, { f.target, 16, 8 }, { f.incarnation, 24, 8 },
        { f.port, 32, 2 }, { f.slot, 34, 1 }, { f.commit, 35, 1 }, { f.asked_epoch, 36, 4 }, { f.slot_sequence, 40, 4 })
end

local function dissect_note(payload, tree)
    if payload:len() < 1 then
        return nil
    end
    local kind = payload(0, 1):uint()
    local note = NOTES[kind]
    tree:add(f.note, payload(0, 1))
    if note == "advert" or note == "search" then
        for at = 1, payload:len() - 27, 27 do
            add_all(tree, payload, { f.root, at + 5, 8 }, { f.hops, at + 1, 2 })
        end
    elseif note == "denied" then
        for at = 1, payload:len() - 8, 8 do
            add_all(tree, payload, { f.root, at, 8 })
        end
    elseif note == "called" then
        local at = 1
        while payload:len() > at + 8 do
            local length = payload(at + 8, 1):uint()
            if length == 0 or payload:len() < at + 9 + length then
                break
            end
            add_all(tree, payload, { f.root, at, 8 })
            tree:add(f.name, payload(at + 9, length))
            at = at + 9 + length
        end
    elseif note == "open" then
        add_all(tree, payload, { f.channel, 2, 2 }, { f.target, 4, 8 }, { f.origin, 12, 8 })
    elseif note == "close" then
        add_all(tree, payload, { f.close_reason, 1, 1 }, { f.channel, 2, 2 }, { f.opener, 4, 1 })
    elseif note == "opened" or note == "wanted" then
        add_all(tree, payload, { f.channel, 2, 2 })
    end
    return note
end

-- Records.

-- Returns the payload of a message as one ByteArray.
local function gather(tvb, at, records, last_bytes)
    local bytes = ByteArray.new()
    for index = 0, records - 1 do
        local from, length = FIRST_PAYLOAD_AT, FIRST_PAYLOAD_BYTES
        if index > 0 then
            from, length = NEXT_PAYLOAD_AT, NEXT_PAYLOAD_BYTES
        end
        if index == records - 1 then
            length = math.min(last_bytes, length)
        end
        if length > 0 then
            bytes:append(tvb:bytes(at + index * RECORD_BYTES + from, length))
        end
    end
    return bytes
end

local dissect_frame

-- Dissects one message. `ends` contains the sender and the receiver, `place` the position of the
-- record in the frame. Returns the number of its records and its label.
local function dissect_message(tvb, at, ends, pinfo, place, tree)
    local function u8(offset)
        return tvb(at + offset, 1):uint()
    end
    local state, shape, last_bytes = u8(2), u8(22), u8(21)
    local kind, records = band(state, 0x0f), band(shape, 0x1f)
    local mine, yours = tvb(at, 4):le_uint(), tvb(at + 4, 4):le_uint()
    local epoch, slot, slot_sequence = tvb(at + 8, 4):le_uint(), u8(20), tvb(at + 16, 4):le_uint()
    local left = (tvb:len() - at) / RECORD_BYTES
    local name = KINDS[kind]
    local subtree = tree:add(covalent, tvb(at, math.max(1, math.min(records, left)) * RECORD_BYTES))
    if rshift(state, 4) ~= VERSION or not name or records == 0 or records > left then
        subtree:set_text("Record of another version, or of none")
        subtree:add(f.version, tvb(at + 2, 1))
        subtree:add_proto_expert_info(malformed)
        return 1, "malformed"
    end

    local facts = found[pinfo.number .. "/" .. place]
    if not facts then
        facts = {}
        found[pinfo.number .. "/" .. place] = facts
        if kind ~= 0 then
            facts.reflection = look_up_reflection(ends.listener, epoch, yours)
            note_sent(ends.speaker, epoch, mine, records, pinfo.number)
        end
    end

    subtree:add(f.jam, tvb(at, 1))
    subtree:add(f.protocol, tvb(at, 1))
    subtree:add(f.slices, tvb(at, 1))
    subtree:add(f.version, tvb(at + 2, 1))
    subtree:add(f.kind, tvb(at + 2, 1)):append_text(": " .. MEANINGS[kind])
    subtree:add_le(f.mine, tvb(at, 4))
    local reflecting = subtree:add_le(f.yours, tvb(at + 4, 4))
    if facts.reflection then
        reflecting = subtree:add(f.reflected, tvb(at + 4, 4), facts.reflection.what):set_generated(true)
        if facts.reflection.frame then
            subtree:add(f.reflects, tvb(at + 4, 4), facts.reflection.frame):set_generated(true)
        elseif facts.reflection.what == "mismatch" then
            reflecting:add_proto_expert_info(mismatch)
        end
    end
    subtree:add_le(f.epoch, tvb(at + 8, 4))
    subtree:add_le(f.sequence, tvb(at + 12, 4))
    subtree:add_le(f.slot_sequence, tvb(at + 16, 4))
    subtree:add(f.slot, tvb(at + 20, 1))
    subtree:add(f.last_bytes, tvb(at + 21, 1))
    subtree:add(f.records, tvb(at + 22, 1))
    subtree:add(f.fragment, tvb(at + 22, 1))
    subtree:add(f.more, tvb(at + 22, 1))
    local piggyback = u8(23)
    if piggyback ~= NO_PIGGYBACK then
        subtree:add(f.piggyback, tvb(at + 23, 1))
    end
    subtree:add_le(f.clock, tvb(at + 24, 4))

    local bytes = gather(tvb, at, records, last_bytes)
    local fragment, more = band(rshift(shape, 5), 3), band(shape, 0x80) ~= 0
    local label, detail = name, nil
    if bytes:len() > 0 then
        local payload = bytes:tvb(name)
        local body = subtree:add(f.payload, payload())
        local exchange = epoch .. "/" .. slot .. "/" .. slot_sequence
        local of_initiator = ends.listener .. "/" .. exchange
        if fragment > 0 then
            detail = "fragment " .. fragment
        elseif name == "Init" then
            detail = dissect_init(payload, body)
        elseif name == "Keepalive" then
            dissect_keepalive(payload, body)
        elseif name == "Request" or name == "Tentative" then
            detail = dissect_request(payload, body)
            if not pinfo.visited then
                asked[ends.speaker .. "/" .. exchange] = { verb = detail, frame = pinfo.number }
            end
        elseif name == "Reflecting" or name == "Committed" then
            facts.asked = facts.asked or asked[of_initiator]
            detail = dissect_reply(payload, body, facts.asked and facts.asked.verb)
        elseif name == "Refused" then
            facts.asked = facts.asked or asked[of_initiator]
            detail = dissect_refusal(payload, body)
        elseif name == "Resolve" then
            dissect_resolve(payload, body)
        elseif name == "Resolved" or name == "Relayed" then
            detail = dissect_resolved(payload, body)
        elseif name == "Relay" then
            dissect_relay(payload, body)
        elseif name == "Note" then
            detail = dissect_note(payload, body)
        elseif name == "Pass" and not more and payload:len() >= 4 then
            add_all(body, payload, { f.channel, 0, 2 }, { f.opener, 2, 1 }, { f.to_all, 2, 1 })
            local channel, flags = payload(0, 2):le_uint(), payload(2, 1):uint()
            local opens = band(flags, 1)
            local inner = {
                speaker = ends.speaker .. "/" .. channel .. "/" .. opens,
                listener = ends.listener .. "/" .. channel .. "/" .. 1 - opens,
                header = (band(flags, 2) ~= 0 and "ffffffffffff" or "02c07a1e0000") .. "02c07a1e0000",
            }
            detail = dissect_frame(payload(4):tvb(), inner, pinfo, place .. "/", body)
        end
        if facts.asked then
            subtree:add(f.answers, tvb(at, RECORD_BYTES), facts.asked.frame):set_generated(true)
            if facts.asked.verb then
                subtree:add(f.verb, tvb(at, RECORD_BYTES), facts.asked.verb):set_generated(true)
            end
        end
    end
    if kind >= 2 and kind <= 7 then
        label = label .. " " .. slot
    end
    if detail then
        label = label .. " " .. detail
    end
    if more then
        label = label .. " …"
    end
    subtree:set_text(label .. ", epoch " .. epoch)
    if facts.reflection and facts.reflection.what == "mismatch" then
        label = label .. " [reflected mismatch]"
    end
    return records, label
end

-- Dissects a frame without its Ethernet header. `ends.header` is the header up to the EtherType, in
-- hexadecimal. Returns the label.
dissect_frame = function(tvb, ends, pinfo, place, tree)
    local records = math.floor(tvb:len() / RECORD_BYTES)
    if records == 0 or records * RECORD_BYTES ~= tvb:len() then
        tree:add_proto_expert_info(malformed)
        return "malformed: " .. tvb:len() .. " bytes are no whole number of records"
    end
    local header = ByteArray.new(ends.header .. string.format("%04x", covalent.prefs.ethertype))
    local high, low = crc({ header, tvb:bytes(0, tvb:len() - 8) })
    local mask_high, mask_low = length_mask(records)
    local at = tvb:len() - 8
    local fits = bxor(low, mask_low) == tobit(tvb(at, 4):le_uint()) and bxor(high, mask_high) == tobit(tvb(at + 4, 4):le_uint())
    for index = 1, records - 1 do
        local other = tvb(index * RECORD_BYTES - 8, 8)
        fits = fits and other(0, 4):uint() == 0 and other(4, 4):uint() == 0
    end
    tree:add_le(f.check_value, tvb(at, 8))
    local check = tree:add(f.check, tvb(at, 8), fits and CHECKS.good or CHECKS.bad):set_generated(true)
    if not fits then
        check:add_proto_expert_info(bad_check)
        return "[bad check]"
    end
    local labels, record = {}, 0
    while record < records do
        local taken, label = dissect_message(tvb, record * RECORD_BYTES, ends, pinfo, place .. record, tree)
        labels[#labels + 1] = label
        record = record + taken
    end
    return table.concat(labels, ", ")
end

function covalent.dissector(tvb, pinfo, tree)
    pinfo.cols.protocol = "Covalent"
    local speaker, listener = eth_src(), eth_dst()
    if not speaker or not listener then
        return 0
    end
    local ends = { speaker = tostring(speaker.range:bytes()), listener = tostring(listener.range:bytes()) }
    ends.header = ends.listener .. ends.speaker
    local subtree = tree:add(covalent, tvb())
    pinfo.cols.info = dissect_frame(tvb, ends, pinfo, "", subtree)
    return tvb:len()
end

local registered
local function register()
    local ethertypes = DissectorTable.get("ethertype")
    if registered then
        ethertypes:remove(registered, covalent)
    end
    registered = covalent.prefs.ethertype
    ethertypes:add(registered, covalent)
end

covalent.prefs_changed = register
register()
